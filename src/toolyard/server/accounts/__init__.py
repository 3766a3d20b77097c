"""The pages and routes by which a user connects an account that a tool needs."""
