"""OpenClaw as the host: the plugin for its memory slot (`plugin/`, JavaScript), and putting it there."""
