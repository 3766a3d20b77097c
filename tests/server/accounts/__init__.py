"""Users' accounts at a real provider: connected by people, refreshed by nodes, disconnected by operators."""
