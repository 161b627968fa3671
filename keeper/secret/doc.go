// Package secret reads the secrets of a host, and carries them where they are used.
//
// A secret is a file NAME/KEY below the host's secrets directory, laid out as Kubernetes mounts a Secret with defaultMode
// 0400 in a 0700 folder, symlinks by way of ..data included. A [Store] reads one only if nobody but root and the user that
// this process runs as could have written or read it; it never leaves the directory, whatever a symlink says.
//
// A launch refers to secrets by marks in its texts (see [spec.MarkSecret]); [Store.Fill] makes of such a text what is
// delivered, and says what must be taken out of whatever is answered.
//
// What it reads is a [Value], which shows as "[secret]" wherever it is printed, logged or encoded. The bytes come out by
// [Value.Reveal] alone, so that a search for that word finds every use. No error of this package holds a secret's content or
// a path of the host: it names NAME/KEY and says what to do.
//
// It writes nothing but into memory, keeps no cache, and starts no goroutine.
package secret
