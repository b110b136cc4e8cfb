#!/bin/bash
# github.com/robfig/cron/v3 3.0.1 (what Karpenter reads schedules of budgets with) and croniter 6.0.0 (PyPI).
#
# Day of month and day of week are joined by AND where one of them is a star, otherwise by OR. What is a star differs:
# - robfig takes `*/1` for a star, so that "0 0 */1 * 1" is every Monday; `*/2` is none, so that "0 0 */2 * 1" is every odd
#   day and every Monday;
# - croniter takes `*/1` for a list of all days, so that the same "0 0 */1 * 1" is every day.
# `1-31`, which is the same days as `*/1`, is no star for either: every day.
#
# Seen on 2026-11-27, first three times after 2026-11-01 (a Sunday):
#   robfig   0 0 */1 * 1   02 09 16
#   robfig   0 0 */2 * 1   02 03 05
#   robfig   0 0 1-31 * 1  02 03 04
#   croniter 0 0 */1 * 1   02 03 04
#   croniter 0 0 */2 * 1   02 03 05
#   croniter 0 0 1-31 * 1  02 03 04
set -euo pipefail
work=$(mktemp -d); trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT; cd "$work"
cat > main.go <<'GO'
package main

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

func main() {
	for _, text := range []string{"0 0 */1 * 1", "0 0 */2 * 1", "0 0 1-31 * 1"} {
		schedule, err := cron.ParseStandard(text)
		if err != nil {
			panic(err)
		}
		at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		fmt.Printf("robfig %s:", text)
		for i := 0; i < 3; i++ {
			at = schedule.Next(at)
			fmt.Printf(" %02d", at.Day())
		}
		fmt.Println()
	}
}
GO
go mod init local/finding 2>/dev/null
go get github.com/robfig/cron/v3@v3.0.1 2>/dev/null
python3 -m venv env
env/bin/pip install --quiet croniter==6.0.0
{
    go run .
    env/bin/python - <<'PY'
from datetime import datetime
from croniter import croniter
for text in ["0 0 */1 * 1", "0 0 */2 * 1", "0 0 1-31 * 1"]:
    times = croniter(text, datetime(2026, 11, 1))
    print(f"croniter {text}:", *[times.get_next(datetime).strftime("%d") for _ in range(3)])
PY
} | tee seen
diff seen - <<'SEEN'
robfig 0 0 */1 * 1: 02 09 16
robfig 0 0 */2 * 1: 02 03 05
robfig 0 0 1-31 * 1: 02 03 04
croniter 0 0 */1 * 1: 02 03 04
croniter 0 0 */2 * 1: 02 03 05
croniter 0 0 1-31 * 1: 02 03 04
SEEN
