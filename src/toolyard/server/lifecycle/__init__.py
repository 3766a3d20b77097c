"""The handlers of the lifecycle API: calls, requests, workers, sessions."""
