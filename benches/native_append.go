// The append of a Go program in the native ledger's format: a lock file, the highest number, a
// temporary file that is synced and renamed.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	dir, text := os.Args[1], os.Args[2]
	_, err := os.Stat(dir)
	check(err)
	lock := filepath.Join(dir, "ledger.lock")
	file, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	check(err)
	meta, err := json.Marshal(map[string]string{"agent_id": "append-operation", "acquired_at": time.Now().UTC().Format(time.RFC3339Nano)})
	check(err)
	_, err = file.Write(meta)
	check(err)
	check(file.Close())
	entries, err := os.ReadDir(dir)
	check(err)
	head := 0
	for _, entry := range entries {
		number, err := strconv.Atoi(strings.TrimSuffix(entry.Name(), ".json"))
		if err == nil && number > head {
			head = number
		}
	}
	var event map[string]any
	check(json.Unmarshal([]byte(text), &event))
	bytes, err := json.MarshalIndent(event, "", "  ")
	check(err)
	temp, err := os.CreateTemp(dir, ".event-*.tmp")
	check(err)
	_, err = temp.Write(bytes)
	check(err)
	check(temp.Sync())
	check(temp.Close())
	check(os.Chmod(temp.Name(), 0o644))
	check(os.Rename(temp.Name(), filepath.Join(dir, fmt.Sprintf("%06d.json", head+1))))
	_, err = os.ReadFile(lock)
	check(err)
	check(os.Remove(lock))
}
