"""The other end of the pipe: what a chat gateway does, for our own commands, demo and benchmarks.

`frames` knows the lines, `calls` matches replies to calls over any pair of byte streams, `spawning`
starts a gateway and gives its pipe to `calls`.
"""

from gateway.client.calls import Client, GatewayGoneError, RemoteError, connect
from gateway.client.spawning import SpawnedGateway, spawn_gateway

__all__ = [
    "Client",
    "GatewayGoneError",
    "RemoteError",
    "SpawnedGateway",
    "connect",
    "spawn_gateway",
]
