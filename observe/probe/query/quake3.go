package query

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"net"
)

// quake3 asks a server of Quake III's kind (ioquake3, OpenArena, Xonotic): `getstatus CHALLENGE` after four bytes of 0xff, answered by
// `statusResponse`, a line `\key\value...` with the challenge among them, and a line for each who is connected: score, ping, "name". Bots have
// a line like anybody's and are counted: the answer does not tell them apart for sure. ioquake3 answers one address at most ten times
// a second, and leaves lines out that do not fit into 16 KiB.
//
// Source: ioquake3 code/server/sv_main.c, SVC_Status
func quake3(conn net.Conn) (a Answer, err error) {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	challenge := hex.EncodeToString(random[:])
	err = exchange(conn, []byte("\xff\xff\xff\xffgetstatus "+challenge), func(b []byte) (bool, error) {
		rest, ok := bytes.CutPrefix(b, []byte("\xff\xff\xff\xffstatusResponse\n"))
		if !ok {
			return false, nil
		}
		info, lines, ok := bytes.Cut(rest, []byte{'\n'})
		if !ok {
			return true, malformed("a status without its end of line")
		}
		if !answersChallenge(info, challenge) {
			return false, nil // to somebody else's question, or an older one of ours
		}
		a, err = told(countLines(lines))
		return true, err
	})
	return a, err
}

// answersChallenge looks for the challenge among the keys and values.
func answersChallenge(info []byte, challenge string) bool {
	parts := bytes.Split(info, []byte{'\\'})
	for i := 1; i+1 < len(parts); i += 2 {
		if string(parts[i]) == "challenge" {
			return string(parts[i+1]) == challenge
		}
	}
	return false
}

// countLines counts the lines that have something on them.
func countLines(lines []byte) (n int) {
	for line := range bytes.Lines(lines) {
		if len(bytes.TrimRight(line, "\n\x00")) > 0 {
			n++
		}
	}
	return n
}
