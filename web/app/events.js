// Server-sent events of a response, as they come: yields the data of each. Comments and other fields mean nothing here.

const MOST_CHARACTERS = 16_000_000; // of one event; more is no answer of a model

export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", data = [], size = 0;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        else if (line === "" && data.length > 0) {
          yield data.join("\n");
          data = [];
          size = 0;
        }
        size += line.length;
      }
      if (rest.length + size > MOST_CHARACTERS) throw new Error("an event of the server has no end");
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
