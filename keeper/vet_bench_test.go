package keeper

import (
	"testing"

	"reconciler.dev/reconciler/spec"
)

// BenchmarkOpenExecutable opens an executable to which no symlink leads, by its path alone and as one behind symlinks.
func BenchmarkOpenExecutable(b *testing.B) {
	w := spec.Workspace{Name: "usr", Path: "/usr"}
	const rel = "bin/env"
	for name, open := range map[string]func(*linuxImage) error{
		"direct": func(i *linuxImage) error { return i.openDirect(w, rel) },
		"behind symlinks": func(i *linuxImage) (err error) {
			if i.exec, err = openExecutable(w, rel, &Host{}); err == nil {
				i.path, err = pathOf(i.exec)
			}
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			loop(b, func() {
				image := &linuxImage{exec: -1, dir: -1}
				if err := open(image); err != nil || image.path != "/usr/bin/env" {
					b.Fatal(image.path, err)
				}
				image.Close()
			})
		})
	}
}
