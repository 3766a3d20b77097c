"""`toolyard install`: edits the settings of desktop clients without disturbing the rest of the file."""
