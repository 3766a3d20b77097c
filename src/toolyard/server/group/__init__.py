"""Several processes that serve one address on one machine, each of them a node of the same ledger.

`parent` starts them and starts those again that die; it holds the listening socket and takes no part in calls. `member`
is what such a process knows of its group, `acceptor` takes its share of the connections, and `counters` adds up what
all of them have counted. `hang_up` says what SIGHUP means, also where there is one process.
"""
