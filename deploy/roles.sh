#!/bin/sh
# Run once by the image of PostgreSQL: the role that gateways serve with. It owns nothing.
set -eu
psql --set=ON_ERROR_STOP=1 --username=postgres --dbname="$POSTGRES_DB" \
    --set=password="$(cat /run/secrets/gateway-password)" <<'SQL'
CREATE ROLE gateway LOGIN PASSWORD :'password';
SQL
