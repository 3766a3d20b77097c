"""What operators' verbs and the server say to each other.

Pure, in both directions, one module a subject.
"""
