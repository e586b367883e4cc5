# One PostgreSQL server in a directory of its own. Both live as long as standard input is open, so
# that nothing is left behind however the parent ends. Arguments: folder of the server's programs,
# port, user, password, further settings (-c name=value).
#
# Says "ready DIRECTORY" when the server runs; then takes lines: "restart", "crash" (as by a power
# cut: immediate, without a word to the clients), "stop" and "start", and answers each with "done".
set -eu
programs=$1 port=$2 user=$3 password=$4
shift 4
directory=$(mktemp -d "${TMPDIR:-/tmp}/durasim-postgres-XXXXXX")
trap 'rm -rf "$directory"' EXIT
export LC_ALL=C

printf '%s' "$password" >"$directory/password"
if ! "$programs/initdb" --pgdata "$directory/data" --username "$user" --pwfile "$directory/password" \
    --auth scram-sha-256 --encoding UTF8 --no-sync >"$directory/initdb.log" 2>&1; then
    tr '\n' ' ' <"$directory/initdb.log" | tail -c 600
    exit 1
fi

# Fails when the server has ended instead.
launch() {
    "$programs/postgres" -D "$directory/data" -k "$directory" -p "$port" \
        -c listen_addresses=127.0.0.1 "$@" </dev/null >>"$directory/log" 2>&1 &
    server=$!
    status=$directory/data/postmaster.pid
    # Its first line names the process, its last says what it does.
    until [ "$(head -n 1 "$status" 2>/dev/null)" = "$server" ] && grep -q '^ready' "$status"; do
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05
    done
}

# While the server was away, somebody may have been given its port for a moment.
start() {
    tries=0
    until launch "$@"; do
        tries=$((tries + 1))
        if [ "$tries" -eq 25 ] || ! tail -n 5 "$directory/log" | grep -q 'already in use'; then
            tail -n 5 "$directory/log" | tr '\n' ' '
            exit 1
        fi
        sleep 0.2
    done
}

stop() {
    kill "-$1" "$server" 2>/dev/null || true
    wait "$server" || true
}

start "$@"
echo "ready $directory"
while read -r command; do
    case $command in
    restart) stop INT && start "$@" ;;
    crash) stop QUIT && start "$@" ;;
    stop) stop INT ;;
    start) start "$@" ;;
    esac
    echo done
done
stop INT
