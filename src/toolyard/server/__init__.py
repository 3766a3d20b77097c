"""The server: settings, the ASGI shell, its routes and pages, and the one place where the parts are put together."""
