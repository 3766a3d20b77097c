"""The nouns everything else is written in. Nothing here imports another part of toolyard."""
