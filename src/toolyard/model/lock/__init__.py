"""A tool as it was approved (`toolyard.lock`), and what has changed since.

Pure values and comparisons; the server and the operator's verbs read and write the file itself.
"""
