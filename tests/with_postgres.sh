#!/usr/bin/env bash
# Runs a command beside a PostgreSQL server of its own: on a free port of loopback, in a temporary folder, as a user other than
# root, with TLS where openssl can make a certificate. The command finds it through QUORATE_POSTGRES (and QUORATE_POSTGRES_CA), and
# from another network namespace through QUORATE_POSTGRES_SOCKET.
# Installs the server where the system's package manager can. Exit code 77: there is no server to be had. Where it may mount one,
# QUORATE_POSTGRES_SMALL names a file system of 8 MiB for the test that fills a disk.
set -euo pipefail

find_server() {
  local folder
  for folder in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin /opt/homebrew/opt/postgresql*/bin; do
    if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then printf '%s\n' "$folder"; fi
  done | sort -V | tail -1
}

bin=$(find_server)
if [ -z "$bin" ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends postgresql; } >/dev/null 2>&1 || true
  bin=$(find_server)
fi
if [ -z "$bin" ]; then
  echo "PostgreSQL is not installed, and cannot be installed here" >&2
  exit 77
fi

folder=$(mktemp -d)
run=()
if [ "$(id -u)" = 0 ]; then
  # The server refuses to run as root.
  user=$(getent passwd postgres nobody | head -1 | cut -d: -f1)
  chown "$user" "$folder"
  run=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --)
fi
stop() {
  "${run[@]}" "$bin/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
  if [ -n "${QUORATE_POSTGRES_SMALL:-}" ]; then umount "$QUORATE_POSTGRES_SMALL" || true; fi
  rm -rf --one-file-system "$folder"
}
unset QUORATE_POSTGRES_SMALL
trap stop EXIT

cd /
"${run[@]}" "$bin/initdb" -D "$folder/data" -U quorate --auth=trust -E UTF8 --no-locale >"$folder/initdb.log" 2>&1 || { cat "$folder/initdb.log" >&2; exit 1; }
tls=(-c ssl=off)
if command -v openssl >/dev/null; then
  "${run[@]}" openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1 \
    -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
    -keyout "$folder/key.pem" -out "$folder/cert.pem" >/dev/null 2>&1
  tls=(-c ssl=on -c ssl_key_file="$folder/key.pem" -c ssl_cert_file="$folder/cert.pem")
  export QUORATE_POSTGRES_CA="$folder/cert.pem"
  chmod 755 "$folder"
fi
mkdir "$folder/small"
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=8m,mode=700,uid="$(id -u "$user")",gid="$(id -g "$user")" tmpfs "$folder/small" 2>/dev/null; then
  export QUORATE_POSTGRES_SMALL="$folder/small"
else
  echo "no file system can be mounted here: the test that fills the server's disk skips" >&2
fi
for attempt in 1 2 3 4 5; do
  port=$((20000 + RANDOM % 20000))
  if "${run[@]}" "$bin/pg_ctl" -D "$folder/data" -w -t 60 -l "$folder/server.log" \
    -o "-h 127.0.0.1 -p $port -k $folder -c max_connections=200 ${tls[*]}" start >/dev/null 2>&1; then
    break
  fi
  [ "$attempt" = 5 ] && { cat "$folder/server.log" >&2; exit 1; }
done
export QUORATE_POSTGRES="host=127.0.0.1 port=$port user=quorate dbname=postgres"
export QUORATE_POSTGRES_SOCKET="host=$folder port=$port user=quorate dbname=postgres"
cd "$OLDPWD"
"$@"
