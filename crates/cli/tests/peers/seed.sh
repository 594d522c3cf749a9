#!/usr/bin/env bash
# Appends events to a documented ledger with the steps of the document's shell example, its mistakes included: it counts files, renames
# over what is there, and lets go of whatever lock it finds.
#
#     seed.sh DIR COUNT PAYLOAD [STEP]
#
# STEP: stop (SIGSTOP) right after it, once: lock, count, mktemp, write, mv.
# With NATIVE in the environment: the same steps on a native ledger, with its names and an event that it has.
LEDGER_DIR=$1/ledger
LOCK_FILE=$LEDGER_DIR/ledger.lock
STEP=${4:-}
if [ -n "${NATIVE:-}" ]; then
    PREFIX= TYPE=nodes_released MEMBERS='"node_ids":[],'
else
    PREFIX=event- TYPE=custom_event MEMBERS=
fi

after() {
    if [ "$STEP" = "$1" ]; then
        STEP=
        kill -STOP $$
    fi
}

for ((i = 1; i <= $2; i++)); do
    while ! mkdir "$LOCK_FILE" 2>/dev/null; do
        sleep 0.01
    done
    after lock

    NEXT_SEQ=$(ls "$LEDGER_DIR/$PREFIX"*.json 2>/dev/null | wc -l)
    NEXT_SEQ=$((NEXT_SEQ + 1))
    after count

    TEMP_FILE=$(mktemp "$LEDGER_DIR/.event-XXXXX.tmp")
    after mktemp
    echo '{"type":"'$TYPE'","timestamp":"'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'",'"$MEMBERS"'"payload":"'"$3$i"'"}' >"$TEMP_FILE"
    after write

    mv "$TEMP_FILE" "$LEDGER_DIR/$PREFIX$(printf '%06d' $NEXT_SEQ).json"
    after mv

    rmdir "$LOCK_FILE"
done
