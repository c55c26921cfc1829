// A worker for jobs and workflow steps of Reprise, with the Go standard library alone.
//
// It takes work in batches from a queue of `reprise serve`, does it, and sends what came of it. Killed at any moment, at most
// the batch in its hands is done again, under the same keys.
//
//	reprise serve --module flows.mjs --work &
//	REPRISE_TOKEN=… go run worker.go squares
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

type task struct {
	Task  string `json:"task"`
	Key   string `json:"key"`
	Input struct {
		N int `json:"n"`
	} `json:"input"`
}

type result struct {
	Task   string `json:"task"`
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// ask sends a request until the server answers: nothing here does harm twice.
func ask(verb string, body, answer any) {
	url := os.Getenv("REPRISE_SERVER")
	if url == "" {
		url = "http://127.0.0.1:4400"
	}
	text, _ := json.Marshal(body)
	for ; ; time.Sleep(100 * time.Millisecond) {
		request, _ := http.NewRequest("POST", url+"/v1/remote/"+os.Args[1]+"/"+verb, bytes.NewReader(text))
		request.Header.Set("Authorization", "Bearer "+os.Getenv("REPRISE_TOKEN"))
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			continue
		}
		err = json.NewDecoder(response.Body).Decode(answer)
		response.Body.Close()
		if response.StatusCode < 300 && err == nil {
			return
		}
		if response.StatusCode < 500 {
			panic(response.Status)
		}
	}
}

// work is what the worker is for. The key is the same each time: hand it to whatever you call.
func work(t task) (any, error) {
	return t.Input.N * t.Input.N, nil
}

func main() {
	ttl, err := strconv.Atoi(os.Getenv("REPRISE_TTL_MS"))
	if err != nil {
		ttl = 30000
	}
	for {
		var claimed struct{ Tasks []task }
		ask("claim", map[string]any{"max": 8, "waitMs": 5000, "ttlMs": ttl}, &claimed)
		results := []result{}
		for _, t := range claimed.Tasks {
			made, err := work(t)
			if err != nil {
				results = append(results, result{Task: t.Task, Error: err.Error()})
			} else {
				results = append(results, result{Task: t.Task, Result: made})
			}
		}
		if len(results) == 0 {
			continue
		}
		var told struct{ Settled []string }
		ask("results", map[string]any{"results": results}, &told)
		settled := map[string]bool{}
		for _, id := range told.Settled {
			settled[id] = true
		}
		for _, t := range claimed.Tasks {
			if settled[t.Task] {
				fmt.Println(t.Key)
			}
		}
	}
}
