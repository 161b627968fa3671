package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// route is one line of the API: who may ask for what.
type route struct {
	pattern string // of http.ServeMux
	access  access
	serve   func(*Service, http.ResponseWriter, *http.Request) error
}

// access says who may ask.
type access int

const (
	anybody access = iota // states, without specs
	admins
)

// routes is everything that the Unix socket answers.
var routes = []route{
	{"GET " + root + "/servers", anybody, (*Service).listServers},
	{"GET " + root + "/namespaces/{namespace}/servers", anybody, (*Service).listServers},
	{"GET " + root + "/namespaces/{namespace}/servers/{name}", anybody, one(Servers, (*Service).serverItems)},
	{"GET " + root + "/namespaces/{namespace}/servers/{name}/history", anybody, (*Service).getHistory},
	{"GET " + root + "/namespaces/{namespace}/servers/{name}/log", admins, (*Service).getLog},
	{"GET " + root + "/profiles", anybody, list((*Service).profileItems)},
	{"GET " + root + "/namespaces/{namespace}/profiles", anybody, list((*Service).profileItems)},
	{"GET " + root + "/namespaces/{namespace}/profiles/{name}", anybody, one(Profiles, (*Service).profileItems)},
	{"GET " + root + "/holds", anybody, list((*Service).holdItems)},
	{"GET " + root + "/namespaces/{namespace}/holds", anybody, list((*Service).holdItems)},
	{"GET " + root + "/namespaces/{namespace}/holds/{name}", anybody, one(Holds, (*Service).holdItems)},
	{"GET " + root + "/jobs", anybody, list((*Service).jobItems)},
	{"GET " + root + "/namespaces/{namespace}/jobs", anybody, list((*Service).jobItems)},
	{"GET " + root + "/namespaces/{namespace}/jobs/{name}", anybody, one(Jobs, (*Service).jobItems)},
	{"GET " + root + "/events", anybody, (*Service).listEvents},
	{"GET " + root + "/namespaces/{namespace}/events", anybody, (*Service).listEvents},
	{"GET " + root + "/sources", anybody, (*Service).listSources},
	{"GET " + root + "/namespaces/{namespace}/sources", anybody, (*Service).listSources},
	{"GET " + root + "/namespaces/{namespace}/sources/{name}", anybody, (*Service).getSource},
	{"GET " + PathVersion, anybody, (*Service).getVersion},
	{"GET " + PathDoctor, admins, (*Service).getDoctor},

	{"POST " + root + "/namespaces/{namespace}/servers/{name}/start", admins, (*Service).postStart},
	{"POST " + root + "/namespaces/{namespace}/servers/{name}/stop", admins, (*Service).postStop},
	{"POST " + root + "/namespaces/{namespace}/servers/{name}/restart", admins, (*Service).postRestart},
	{"POST " + root + "/namespaces/{namespace}/servers/{name}/release", admins, (*Service).postRelease},
	{"POST " + root + "/namespaces/{namespace}/servers/{name}/retire", admins, (*Service).postRetire},
	{"POST " + root + "/namespaces/{namespace}/servers/{name}/send", admins, (*Service).postSend},
	{"POST " + root + "/namespaces/{namespace}/servers/{name}/attach", admins, (*Service).postAttach},
	{"POST " + root + "/namespaces/{namespace}/servers/{name}/keys", admins, (*Service).postKeys},
	{"POST " + root + "/namespaces/{namespace}/jobs", admins, (*Service).postJob},
	{"POST " + root + "/namespaces/{namespace}/jobs/{name}/cancel", admins, (*Service).postCancel},
	{"POST " + root + "/sources/prune", admins, (*Service).postPrune},
	{"POST " + PathShutdown, admins, (*Service).postShutdown},
}

// Control is the handler of the Unix socket. Its server must have [ConnContext] as its hook.
func (s *Service) Control() http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) {
			if err := s.guarded(r, w, req); err != nil {
				s.fail(w, req, err)
			}
		})
	}
	s.health(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		s.fail(w, req, Failure(ReasonNotFound, "there is no %s %s", req.Method, req.URL.Path))
	})
	return mux
}

// guarded serves r if its peer may ask for it.
func (s *Service) guarded(r route, w http.ResponseWriter, req *http.Request) error {
	p := peerOfRequest(req)
	if p.err != nil {
		s.Log.Warn("refused a request whose sender the kernel does not name", "error", p.err)
		return Failure(ReasonForbidden, "the kernel does not say who asks")
	}
	if r.access == admins && !s.administers(p) {
		return Failure(ReasonForbidden, "user %q may not do this: only root and the user that runs the reconciler may", p.name())
	}
	return r.serve(s, w, req)
}

// fail answers with err as a Status. An error that is none is ours: it is logged, and the caller learns no more.
func (s *Service) fail(w http.ResponseWriter, req *http.Request, err error) {
	var status *Status
	if !errors.As(err, &status) {
		if req.Context().Err() != nil {
			return // nobody waits for the answer any more
		}
		s.Log.Error("cannot answer", "method", req.Method, "path", req.URL.Path, "error", err)
		status = Failure(ReasonInternalError, "internal error; the reconciler's own log says more")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status.Code)
	if err := json.NewEncoder(w).Encode(status); err != nil {
		s.Log.Debug("cannot send an answer", "error", err)
	}
}

// awaitKeeper waits until the keeper answers, before something is asked whose answer may take any time. An asker that waits long hears
// why, in an interim response (RFC 9110, 15.2), while its answer is still to come.
func (s *Service) awaitKeeper(w http.ResponseWriter, r *http.Request) error {
	return s.Host.Keeper(r.Context(), func(text string) {
		warn(w, text)
		w.WriteHeader(http.StatusProcessing)
		w.Header().Del("Warning")
	})
}

// warn adds a text to an answer's head (RFC 7234, 5.5), as Kubernetes does.
func warn(w http.ResponseWriter, text string) {
	w.Header().Add("Warning", "299 - "+strconv.Quote(text))
}

// reply answers with v.
func reply(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// body decodes the body of r into v, strictly. An empty body leaves v as it is.
func body(r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err != nil && !errors.Is(err, io.EOF) {
		return Failure(ReasonBadRequest, "cannot read the request: %s", err)
	}
	return nil
}
