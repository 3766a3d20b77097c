"""How a tool runs here: on the event loop, in a thread, in a child process; one attempt from arguments to outcome; and
the checks of what goes in and comes out. The engine and workers run tools through this, and it knows neither.
"""
