"""The page, the API and the audited decisions by which people approve calls."""
