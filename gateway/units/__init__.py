"""The gateway as a service of the user: its unit files and the service manager that runs them.

`files` knows what is written where, `manager` asks systemctl, `installing` puts both together.
"""
