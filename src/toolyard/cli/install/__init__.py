"""`toolyard install`: the verb, the desktop clients that it knows, and editors for JSON and TOML that leave the rest of
a file as it is."""
