// The boards that servers of this process serve. A call without an engine, as from a user's own context, is
// offered on the first of them, as soon as there is one.

import type { Board, Offer } from './board.ts'

const served = new Set<Board>()
const waiting = new Set<(board: Board) => void>()

/** The returned function ends it. */
export function serveBoard(board: Board): () => void {
  served.add(board)
  for (const call of waiting) call(board)
  waiting.clear()
  return () => served.delete(board)
}

export async function offerAnywhere(offer: Offer): Promise<unknown> {
  const [first] = served
  const board = first ?? (await new Promise<Board>((resolve) => waiting.add(resolve)))
  return await board.offer(offer)
}
