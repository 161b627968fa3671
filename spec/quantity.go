package spec

import "k8s.io/apimachinery/pkg/api/resource"

// parseQuantity is the value of a Kubernetes quantity, rounded up to a whole number; quantities beyond 63 bits are none.
func parseQuantity(s string) (int64, bool) {
	q, err := resource.ParseQuantity(s)
	if err != nil || q.CmpInt64(maxInt64) >= 0 {
		return 0, false
	}
	return q.Value(), true
}
