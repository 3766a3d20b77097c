"""What no client should be able to do: stop the server, slow it down, make it answer nonsense, or make it tell."""
