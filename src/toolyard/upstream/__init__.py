"""How a call runs at another server: toolyard is that server's client, over HTTP, and hands back what it answered.
Servers are other people's, so every reply is bounded and nothing about it is taken for granted.
"""
