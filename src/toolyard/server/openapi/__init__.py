"""The OpenAPI document, and what it says of each route. Loaded when somebody asks for it."""
