#!/bin/bash
# github.com/robfig/cron/v3 3.0.1, schedules with CRON_TZ.
#
# On the day when clocks go back, a daily schedule in the hour that comes twice fires twice, an hour apart. (The package's
# documentation says that one in the hour that is left out in spring does not fire; of the other day it says nothing.) So a
# window of a budget that begins then, such as "CRON_TZ=America/New_York 30 1 * * *" with a duration of 30 minutes, is open
# twice that night.
#
# Seen on 2026-11-27, the times after 2026-10-31 in UTC; clocks go back on 2026-11-01 at 06:00 UTC:
#   2026-11-01T05:30 2026-11-01T06:30 2026-11-02T06:30
set -euo pipefail
work=$(mktemp -d); trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
cat > main.go <<'GO'
package main

import (
	"fmt"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

func main() {
	schedule, err := cron.ParseStandard("CRON_TZ=America/New_York 30 1 * * *")
	if err != nil {
		panic(err)
	}
	at := time.Date(2026, 10, 31, 12, 0, 0, 0, time.UTC)
	for i := 0; i < 3; i++ {
		at = schedule.Next(at)
		fmt.Println(at.UTC().Format("2006-01-02T15:04"))
	}
}
GO
go mod init local/finding 2>/dev/null
go get github.com/robfig/cron/v3@v3.0.1 2>/dev/null
go run . | tee seen
diff seen - <<'SEEN'
2026-11-01T05:30
2026-11-01T06:30
2026-11-02T06:30
SEEN
