package faultd

import (
	"bufio"
	"fmt"
	"net"
)

func serveTelnet(r *remote) error { return r.listen(r.telnet) }

// telnet speaks as the external console of Teeworlds does: it asks for a password, then takes lines.
// (teeworlds, src/engine/shared/econ.cpp)
func (r *remote) telnet(c net.Conn) error {
	in := bufio.NewReader(c)
	write := func(text string) error { _, err := fmt.Fprintf(c, "%s\r\n", text); return err }
	for try := 1; r.password != ""; try++ {
		if err := write("Enter password:"); err != nil {
			return err
		}
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if r.loggedIn(trimNewline(line) == r.password) {
			if err := write("Authentication successful. External console access granted."); err != nil {
				return err
			}
			break
		}
		if err := write(fmt.Sprintf("Wrong password %d/3.", try)); err != nil || try == 3 {
			return err
		}
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if err := r.answer(trimNewline(line), write); err != nil {
			return err
		}
	}
}
