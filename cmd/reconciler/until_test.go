//go:build chaos || crash || real

package main

import "time"

// until asks again and again until ask is content, and says why it never was. What is asked is another process, which tells nobody.
func until(patience time.Duration, ask func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := ask()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
