// Talking to the studio's server.

export async function ask(path, body) {
  const how = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await fetch(path, how);
  if (answer.ok) return answer.json();
  let sentence = await answer.text();
  try {
    sentence = JSON.parse(sentence).error || sentence;
  } catch {
    // it was a sentence already
  }
  throw new Error(sentence);
}

// Files and folders that were dropped, with their paths.
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => [file.name, file]);
  const found = [];
  const walk = async (entry, above) => {
    if (entry.isFile) found.push([above + entry.name, await new Promise((yes, no) => entry.file(yes, no))]);
    else {
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((yes, no) => reader.readEntries(yes, no));
        if (!some.length) break;
        for (const one of some) await walk(one, `${above}${entry.name}/`);
      }
    }
  };
  for (const entry of entries) await walk(entry, "");
  return found;
}

const PHOTO = /\.(jpe?g|jpe|png|bmp|gif|webp|tiff?|ppm|pgm|pbm|avif|hei[cf]|raw|cr[23]|nef|arw|orf|rw2|raf|dng|psd|svg|jxl)$/i;

// Send files, three at a time; `said` hears how far it is. What was refused comes back as sentences.
export async function send(files, said) {
  const photos = files.filter(([name]) => PHOTO.test(name) && !name.split("/").some((part) => part.startsWith(".")));
  const refused = photos.length < files.length ? [`${files.length - photos.length} files are no photos`] : [];
  let next = 0;
  let done = 0;
  const one = async () => {
    while (next < photos.length) {
      const [name, file] = photos[next++];
      try {
        const answer = await fetch(`/api/drop?name=${encodeURIComponent(name)}`, { method: "POST", body: file });
        if (!answer.ok) refused.push((await answer.json().catch(() => ({}))).error || `${name} was refused`);
      } catch {
        refused.push(`${name} did not arrive`);
      }
      said(++done, photos.length);
      if (done % 100 === 0) await ask("/api/scan", { last: false });
    }
  };
  await Promise.all([one(), one(), one()]);
  await ask("/api/scan", {});
  return refused;
}
