"""Text made safe and plain: hidden characters, escapes, scrubbing of secrets, base64url, addresses.

Pure functions on text and bytes, used by every layer. Imports nothing of toolyard.
"""
