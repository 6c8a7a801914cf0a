#!/usr/bin/env bash
# Runs a command beside two etcd servers of its own: on free ports of loopback, in a temporary folder, one without TLS and, where
# openssl can make certificates, one that asks its clients for theirs. The command finds them through QUORATE_ETCD, and QUORATE_ETCD_TLS
# with QUORATE_ETCD_CA, QUORATE_ETCD_CERT and QUORATE_ETCD_KEY; QUORATE_ETCD_PROGRAM is the server's program, for tests that kill one.
# Installs the server where the system's package manager can. Exit code 77: there is no server to be had.
set -euo pipefail

program=$(command -v etcd || true)
if [ -z "$program" ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  # The package starts a server of its own unless it is told not to.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made=$policy; fi
  { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends etcd-server; } >/dev/null 2>&1 || true
  if [ -n "${made:-}" ]; then rm -f "$made"; fi
  program=$(command -v etcd || true)
fi
if [ -z "$program" ]; then
  echo "etcd is not installed, and cannot be installed here" >&2
  exit 77
fi

folder=$(mktemp -d)
servers=()
stop() {
  for server in "${servers[@]}"; do kill -KILL "$server" 2>/dev/null || true; done
  wait "${servers[@]}" 2>/dev/null || true
  rm -rf "$folder"
}
trap stop EXIT

# Starts a server on free ports and waits until it leads; its address is in `$endpoint`.
start() { # name, scheme, options...
  local name=$1 scheme=$2 attempt port log=$folder/$1.log
  shift 2
  for attempt in 1 2 3 4 5; do
    port=$((20000 + 2 * (RANDOM % 10000)))
    endpoint=$scheme://127.0.0.1:$port
    "$program" --name "$name" --data-dir "$folder/$name-$attempt" --logger zap --log-outputs stderr \
      --listen-client-urls "$endpoint" --advertise-client-urls "$endpoint" \
      --listen-peer-urls "http://127.0.0.1:$((port + 1))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
      --initial-cluster "$name=http://127.0.0.1:$((port + 1))" "$@" >"$log" 2>&1 &
    servers+=($!)
    for _ in $(seq 200); do
      if grep -q "serving client traffic" "$log"; then return; fi
      kill -0 $! 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL $! 2>/dev/null || true
  done
  cat "$log" >&2
  return 1
}

certificate() { # name, extension: signed by the authority
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$folder/$1.key" -out "$folder/$1.csr"
  printf 'subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth,clientAuth\n' >"$folder/$1.ext"
  openssl x509 -req -in "$folder/$1.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" -CAcreateserial -days 2 -extfile "$folder/$1.ext" \
    -out "$folder/$1.pem"
}
certificates() {
  command -v openssl >/dev/null || return 1
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -keyout "$folder/ca.key" -out "$folder/ca.pem" &&
    certificate server && certificate client
}

start plain http
export QUORATE_ETCD=$endpoint QUORATE_ETCD_PROGRAM=$program
if certificates >"$folder/openssl.log" 2>&1; then
  start secure https --cert-file "$folder/server.pem" --key-file "$folder/server.key" --trusted-ca-file "$folder/ca.pem" --client-cert-auth
  export QUORATE_ETCD_TLS=$endpoint QUORATE_ETCD_CA=$folder/ca.pem QUORATE_ETCD_CERT=$folder/client.pem QUORATE_ETCD_KEY=$folder/client.key
else
  echo "no certificates can be made here: the test over TLS skips" >&2
fi
"$@"
