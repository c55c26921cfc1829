// Finds the elements that affect an outcome, by leaving some of them out.

const runsMax = 40

/**
 * Finds one element after another: the last of the shortest sorted prefix whose absence changes the outcome is relevant.
 * Stops after a number of runs, and returns the elements found by then.
 */
export async function affectingElements(
  names: readonly string[],
  isSameWithout: (names: ReadonlySet<string>) => Promise<boolean>,
): Promise<string[]> {
  const affecting: string[] = []
  let runs = 0
  const isSame = (some: readonly string[]) => {
    runs += 1
    return isSameWithout(new Set(some))
  }
  while (runs < runsMax) {
    const left = names.filter((name) => !affecting.includes(name))
    if (left.length === 0 || (await isSame(left))) break
    let [low, high] = [0, left.length]
    while (high - low > 1 && runs < runsMax) {
      const middle = (low + high) >> 1
      if (await isSame(left.slice(0, middle))) low = middle
      else high = middle
    }
    affecting.push(left[high - 1]!)
  }
  return affecting.sort()
}
