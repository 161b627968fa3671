// Package crdtest holds the manifest language against the Kubernetes API server's own validation.
//
// It is a module of its own, for tests alone, so that nothing of the API server is ever linked into the product.
package crdtest
