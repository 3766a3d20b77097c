"""What several verbs of the command line share: options, the screen, asking, waiting."""
