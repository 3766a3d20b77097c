"""Settings as data: one row gives the flag, the environment variable, the default and the documentation.

`table` has the rows and where their values come from, `readers` what each value may be. Knows nothing else of the
server; all of the server may know it, and takes the settings as they were read.
"""
