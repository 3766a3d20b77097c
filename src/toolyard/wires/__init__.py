"""The protocols, as pure functions in both directions. Nothing here awaits, opens or knows the engine."""
