//go:build !amd64 && !arm64

package stage

var program []byte
