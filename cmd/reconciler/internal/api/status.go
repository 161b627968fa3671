package api

import (
	"fmt"
	"net/http"
)

// Status is Kubernetes' answer to a request that has no object to show, above all to one that was refused.
type Status struct {
	TypeMeta
	Status  string         `json:"status"` // Success or Failure
	Message string         `json:"message,omitempty"`
	Reason  StatusReason   `json:"reason,omitempty"`
	Details *StatusDetails `json:"details,omitempty"`
	Code    int            `json:"code"`
}

// StatusReason is the machine's word for a refusal.
type StatusReason string

// The reasons, as in Kubernetes.
const (
	ReasonNotFound           StatusReason = "NotFound"
	ReasonForbidden          StatusReason = "Forbidden"
	ReasonBadRequest         StatusReason = "BadRequest"
	ReasonConflict           StatusReason = "Conflict"
	ReasonInvalid            StatusReason = "Invalid"
	ReasonMethodNotAllowed   StatusReason = "MethodNotAllowed"
	ReasonServiceUnavailable StatusReason = "ServiceUnavailable"
	ReasonInternalError      StatusReason = "InternalError"
)

// codes is the HTTP code of each reason.
var codes = map[StatusReason]int{
	ReasonNotFound:           http.StatusNotFound,
	ReasonForbidden:          http.StatusForbidden,
	ReasonBadRequest:         http.StatusBadRequest,
	ReasonConflict:           http.StatusConflict,
	ReasonInvalid:            http.StatusUnprocessableEntity,
	ReasonMethodNotAllowed:   http.StatusMethodNotAllowed,
	ReasonServiceUnavailable: http.StatusServiceUnavailable,
	ReasonInternalError:      http.StatusInternalServerError,
}

// StatusDetails says what a Status is about.
type StatusDetails struct {
	Kind   string        `json:"kind,omitempty"`
	Name   string        `json:"name,omitempty"`
	Causes []StatusCause `json:"causes,omitempty"`
}

// StatusCause is one thing wrong.
type StatusCause struct {
	Reason  string `json:"reason,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message,omitempty"`
}

// Error makes a failed Status an error.
func (s *Status) Error() string { return s.Message }

// Failure is a refusal for reason.
func Failure(reason StatusReason, format string, args ...any) *Status {
	return &Status{
		TypeMeta: TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   "Failure",
		Message:  fmt.Sprintf(format, args...),
		Reason:   reason,
		Code:     codes[reason],
	}
}

// NotFound is kubectl's phrase for an object that is not there.
func NotFound(resource, name string) *Status {
	s := Failure(ReasonNotFound, "%s %q not found", resource, name)
	s.Details = &StatusDetails{Kind: resource, Name: name}
	return s
}

// success is an answer without an object.
func success(format string, args ...any) *Status {
	return &Status{
		TypeMeta: TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   "Success",
		Message:  fmt.Sprintf(format, args...),
		Code:     http.StatusOK,
	}
}
