"""What several verbs share: reading options, finding the server or ledger, writing to the screen, asking, waiting."""
