package stage

import _ "embed"

//go:embed elf/amd64.elf
var program []byte
