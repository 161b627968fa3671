// Package examples holds complete manifests to start from, one server a file. Each is validated by a test, and each is
// run by one where its server can be installed.
package examples

import (
	"embed"
	"path"
	"strings"
)

// Default is the example that needs nothing beyond a bare Debian.
const Default = "echo"

//go:embed *.yaml
var files embed.FS

// Names is the name of every example, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the files are part of the program
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	return names
}

// Get is the manifest of one example.
func Get(name string) ([]byte, bool) {
	data, err := files.ReadFile(name + ".yaml")
	return data, err == nil
}
