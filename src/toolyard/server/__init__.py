"""The server: everything between a connection and the engine, and the one place where all parts are put together
(`app`).

Each feature has a folder with its handlers and its routes; `http` carries them, `intake` is what every call passes, and
the modules beside the folders know the settings alone: the ledger, the tools that are served, their lock, and checks of
rules and definitions. No layer below imports the server; the operator's verbs and the command line do.
"""
