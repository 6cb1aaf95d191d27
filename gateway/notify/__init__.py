"""The service manager's side of the process: systemd's notifications and sockets.

`notifier` tells what state the process is in, `supervision` knows when that is so, `handed_in` takes
over listening sockets. All of it is silent unless the process is a service of its own.
"""
