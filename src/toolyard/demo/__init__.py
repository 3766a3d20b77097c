"""`toolyard demo`: a server, a provider of its own, and the story that a person goes through with them."""
