package queue

import "context"

// endTurn lets the walks go on that wait in giveTurn. The caller holds q.mu.
func (q *Queue) endTurn() {
	if q.turn != nil {
		close(q.turn)
		q.turn = nil
	}
}

// giveTurn waits until Pop, if a batch kept it from popping, has looked again. Without this the
// next batch would keep it from popping too: it is pending before Pop is awake.
func (q *Queue) giveTurn(ctx context.Context) {
	q.mu.Lock()
	turn := q.turn
	q.mu.Unlock()
	if turn != nil {
		_ = q.wait(ctx, turn) // a walk whose context has ended still visits all pods
	}
}
