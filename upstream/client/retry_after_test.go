package client

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter_ReadsSecondsAndDates(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	date := func(after time.Duration) string { return now.Add(after).UTC().Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		value, date string
		want        time.Duration
	}{
		"absent":                       {"", "", 0},
		"seconds":                      {"7", "", 7 * time.Second},
		"zero":                         {"0", "", 0},
		"negative":                     {"-7", "", 0},
		"a fraction":                   {"1.5", "", 0},
		"a word":                       {"soon", "", 0},
		"too long":                     {"86400", "", MaxRetryAfter},
		"more than nanoseconds hold":   {"9223372037", "", MaxRetryAfter},
		"more than any number holds":   {"99999999999999999999", "", MaxRetryAfter},
		"a date":                       {date(time.Minute), date(0), time.Minute},
		"of another clock":             {date(time.Hour + time.Minute), date(time.Hour), time.Minute},
		"in the past":                  {date(-time.Minute), date(0), 0},
		"far ahead":                    {date(9000 * time.Hour), date(0), MaxRetryAfter},
		"of RFC 850":                   {now.Add(time.Minute).UTC().Format("Monday, 02-Jan-06 15:04:05 GMT"), date(0), time.Minute},
		"of asctime":                   {now.Add(time.Minute).UTC().Format(time.ANSIC), date(0), time.Minute},
		"beside a Date that is broken": {date(time.Hour), "yesterday", MaxRetryAfter},
	} {
		header := http.Header{}
		header.Set("Retry-After", test.value)
		header.Set("Date", test.date)
		if got := retryAfter(header); got != test.want {
			t.Errorf("%s: Retry-After: %s = %s, want %s", name, test.value, got, test.want)
		}
	}
}
