"""Reading configuration files and variables into values that know their place. Knows no key's meaning."""
